"""Text made for scenes: by templates or by a language model behind a server, and a filter that lets through only what holds."""
