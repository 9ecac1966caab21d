"""``python -m grand3d``: what ``accelerate launch -m grand3d`` starts."""

import sys

from grand3d.cli import main

if __name__ == "__main__":
    sys.exit(main())
