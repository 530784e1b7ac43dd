"""This package renders what the inspector of a call and the screen of a compaction show, and what can be copied."""
