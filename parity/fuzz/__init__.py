"""The hunt: scenarios that nobody wrote, played on both sides, and the smallest one for each finding that no record has."""
