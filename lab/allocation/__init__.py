"""Dynamic allocation: what it costs to move CPU between containers by their caps, and how soon that takes effect.

Containers share one CPU by caps that always add up to it. Every T seconds the smaller and the larger caps are swapped.
Each step is compared with a static one, and with a control that writes unchanged caps.
"""
