"""Damaged files for everything that reads bytes: nothing executes, nothing hangs, every refusal is a sentence."""
