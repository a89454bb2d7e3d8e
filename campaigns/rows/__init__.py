"""Adversarial rows for every rule, in every storage and type, and what each rule promises whatever they hold."""
