"""Prime attention: every pair of tokens has its own view of key and value (dynamic relational priming).

    k~_j = k_j * F_ij,   v~_j = v_j * F_ij                                                        (eq. 11, 12)
    x'_i = sum_j softmax_j( q_i . k~_j / sqrt(d_h) ) v~_j                                         (eq. 10)
    F_ij = 1 + MLP( W f_ij + e_ij )                                      f: features (eq. 13), e: a free term per pair

q, k, v [token, d_h] of one head; F [query, key, d_h], the same for keys and values; F = 1 is softmax attention.

Where we differ from the paper, or fill in what it leaves open (the sum of eq. 10 runs over j, not i as printed):
- F starts at 1 exactly (the MLP's last map starts at 0), since the paper asks for a start near the identity.
- Features are averaged over training windows and fixed (`prepare`), the reading that fits the paper's memory counts;
  `per_window=True` recomputes them for every window, the reading that fits its notation.
- e_ij, free and 0 at the start, gives the "independent parameters" of Theorem 5.1; `free=False` leaves it out.
- The self pair is primed too (eq. 14 leaves it out, eq. 10 does not). Pairs with a calendar token have F = 1.
- `sparsity` is the share of pairs without a primer, as figure 2 draws it (its caption says the opposite).
- On a graph the softmax runs over neighbours (eq. 33) with the scores of eq. 10, so that the complete graph is the
  dense form; loops are always included. GAT's own scores are another host's matter.

`form="released"` is prime attention as what looks like its authors' code has it, beside this reading: primers are made
from each window alone, one for all heads and layers, and do not start near 1 (`prime/window_primer.py`); `prime_net` is
the network around it. Left out on purpose: attention dropout that stays on at test, and a constant factor on F.

Features need tokens that are channels. Where tokens are something else (patches, time steps), a pair has only its free
term, drawn at random for `features="random"`.
"""

from rearview.attention.prime.layer import Features, Layer, Primer, Settings, reference

__all__ = ["Features", "Layer", "Primer", "Settings", "reference"]
