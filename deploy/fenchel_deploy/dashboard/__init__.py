"""What a run looks like to people: one description in numbers, drawn as a page that follows it and as a report.

`documents` says what a description consists of. The page, the report, the JSON of `fenchel report` and the figures for
a paper are all drawn from it, so that a number is the same wherever it is shown.
"""
