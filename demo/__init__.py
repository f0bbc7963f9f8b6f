"""A study's consolidation experiment on simulated hosts, from published numbers (study.yml), and a shop on KVM.

study     published numbers, and assumptions where nothing was published
story     which step of the experiment runs at a given time
shop      a KVM host's shop and batch job at that time, all invented (shop.yml)
model     what each host does in a step, and its counters at a given time: pure functions
xen, kvm, openvz, sensors   these counters in the format of the exporters' sources and the sensors' pages
history, past   a day of past samples, and of past records of rules, as OpenMetrics
"""
