"""Measurements: ratios within one run, alternating, medians. ``make bench`` runs them all."""
