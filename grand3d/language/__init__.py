"""The language of referring expressions: what they say of which thing, and ViGiL3D's 35 measures of it."""
