"""Where vestat-exporter's figures come from: text files of the kernel, live or recorded, and vzlist."""
