"""What both processes ask of the kernel: filters, restrictions, and what a process looks like from outside."""
