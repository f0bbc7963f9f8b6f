"""The study's consolidation experiment on simulated hosts, from published numbers (study.yml).

study     what was published, and what was assumed where nothing was
story     which step of the experiment runs at a given time
model     what each host does in a step, and its counters at a given time: pure functions
xen, openvz, sensors   these counters as the exporters and sensors would read or show them
history, past   a day of what would have been scraped, and of what rules would have recorded, as OpenMetrics
"""
