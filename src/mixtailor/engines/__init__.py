"""Rules on the engines people already use: translate, call a rule, translate back. An engine loads where it is used."""
