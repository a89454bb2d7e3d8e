"""The command of the README, with two hostile files of every kind."""
