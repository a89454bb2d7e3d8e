"""Handwritten digits, learnt by Flower clients, some of them Byzantine."""
