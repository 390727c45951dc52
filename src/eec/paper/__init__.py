"""The paper, as data: what it published, so that a report can show it beside what we measure."""
