"""The `ferrule` command: one file per subcommand."""
