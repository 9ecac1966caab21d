"""People check made texts (docs/human_check.md): tasks are drawn, shown as pages on this machine, voted on and counted."""
