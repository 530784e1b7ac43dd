"""Everything a person corrects: the journal, facts, summaries, notes and published files."""
