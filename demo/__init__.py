"""A study's consolidation experiment on simulated hosts, from published numbers (study.yml), and a shop on KVM.

study     what was published, and what was assumed where nothing was
story     which step of the experiment runs at a given time
shop      what a KVM host's shop and batch job do meanwhile, all of it chosen (shop.yml)
model     what each host does in a step, and its counters at a given time: pure functions
xen, kvm, openvz, sensors   these counters as the exporters and sensors would read or show them
history, past   a day of what would have been scraped, and of what rules would have recorded, as OpenMetrics
"""
