"""Handwritten digits, learnt by Flower clients of which some lie."""
