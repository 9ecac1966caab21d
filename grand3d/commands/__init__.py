"""What the command line does: one function a command, in the module that ``arguments`` names."""
