"""Text as evidence: reading, comparing and measuring strings that people, models and files hand to us."""
