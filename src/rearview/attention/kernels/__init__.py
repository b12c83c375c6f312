"""Hand-written GPU kernels, each beside a form that torch can run anywhere; nothing here is needed on a CPU."""
