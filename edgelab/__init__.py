"""Offline edge testing: an all-in-one box, simulated fleets, link faults. Ships to users."""
