"""Published files to data folders, one module a source.

Each module named here has ``convert(*, ..., rejects=None) -> Data``, whose keyword arguments are the files it takes (those
without a default are needed), and ``INPUTS``, one line of help for each of them. Those that are no files are in its
``SETTINGS``, where it has some: a type, or a tuple of what may be given.
"""

from __future__ import annotations

CONVERTERS = {
    "grand3d": "grand3d.convert.grand3d",
    "scanrefer": "grand3d.convert.scanrefer",
    "pope": "grand3d.convert.pope",
    "referit3d": "grand3d.convert.referit3d",
    "multi3drefer": "grand3d.convert.multi3drefer",
    "vigil3d": "grand3d.convert.vigil3d",
    "scanents3d": "grand3d.convert.scanents3d",
    "sg3d": "grand3d.convert.sg3d",
    "clevr": "grand3d.convert.clevr",
    "reref3d": "grand3d.convert.reref3d",
    "scanqa": "grand3d.convert.scanqa",
    "sqa3d": "grand3d.convert.sqa3d",
    "scan2cap": "grand3d.convert.scan2cap",
    "beacon3d": "grand3d.convert.beacon3d",
    "mmscan": "grand3d.convert.mmscan",
    "leo": "grand3d.convert.leo",
    "chatscene": "grand3d.convert.chatscene",
    "scannet": "grand3d.convert.scannet",
    "mask3d": "grand3d.convert.mask3d",
    "boxes": "grand3d.convert.boxes",
    "ply": "grand3d.convert.ply",
    "front3d": "grand3d.convert.front3d",
    "scannetpp": "grand3d.convert.scannetpp",
    "rscan": "grand3d.convert.rscan",
    "arkit": "grand3d.convert.arkit",
    "multiscan": "grand3d.convert.multiscan",
    "sceneverse": "grand3d.convert.sceneverse",
    "embodiedscan": "grand3d.convert.embodiedscan",
    "structured3d": "grand3d.convert.structured3d",
}
