"""The conformance harness: scenarios, sides, diff, properties, findings, records, reports, commands."""
