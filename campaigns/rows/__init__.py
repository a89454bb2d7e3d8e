"""Adversarial rows for every rule, in every home and type, and what each rule promises whatever they hold."""
