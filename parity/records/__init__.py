"""Records: one Markdown file in `records/` for each decision about a finding; docs/records.md is for people."""
