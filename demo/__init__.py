"""The study's consolidation experiment, played: made-up hosts, from published numbers (study.yml).

study     what was published, and what was chosen where nothing was
story     which step of the experiment is on at a moment
model     what each host does in a step, and its counters at a moment: pure functions
xen, openvz, sensors   these counters as the exporters and sensors would read or show them
history, past   a day of what would have been scraped, and of what rules would have recorded, as openmetrics
"""
