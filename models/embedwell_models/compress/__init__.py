"""Smaller tables: fewer words or dimensions, and rows of integers, codes, tiers or shared rows."""
