"""Recency-biased causal attention (Hegazy, Mahoney and Erichson, AISTATS 2026): keys fade with their age.

    S = Q K^T / sqrt(D_k)                                    (1)
    M^(C)_(i,j) = -inf for j > i, else 0                     (3)
    M^(L)_(i,j) = f(t_i - t_j) for j <= i, else 0            (4)
    C = softmax(S + M^(C) + M^(L)),  output C V              (5), (6)

Symbols: Q, K, V [token, D_k] of one head; t the age of a key in tokens (patches in Powerformer, time steps in a plain
Transformer), or in real time where the caller gives `ages`. The biases, all 0 at t = 0:

    power_law              f(t) = -alpha ln(t + 1)                   (S1)
    similarity_power_law   f(t) = -(t ^ alpha)                       (S2)
    exponential            f(t) = -alpha t                           ALiBi
    butterworth            f(t) = -2.5 ln(1 + (tan(t / s) / tan(0.4 pi)) ^ 2n) up to t = s pi 511/1024, then -inf   (S3)
    step                   f(t) = 0 up to t = s, then -inf
    causal                 f(t) = 0

Where the text and the released code differ we follow the code, which the paper's figures fit:

- Equation (1) prints K Q^T; rows are queries, so it is Q K^T. S1 prints ln(t), infinite at t = 0; the code adds 1. S2
  prints the exponent -alpha; the code has +alpha, which alone decays.
- Butterworth: main text and S3 print gains of opposite sign; the code takes 5 ln |gain| of a digital low-pass (cut-off
  0.8) at 512 points and joins them by lines. That is done here, exactly. The closed form above, on which the points
  lie, is within 0.001 of it for s <= 10 and within 0.02 at worst.
- Attention dropout is left out, as the paper says (S3.3), whatever the host has set.
- With residual attention scores the released layer hands on scores that contain the mask, so layer l sees the masks of
  l layers: alpha, 2 alpha, 3 alpha. The text describes one mask per layer. `residual_mask` has both; the first is the
  default because the published numbers were made with it.
- alpha is one number per layer; one per head belongs to the flip-flop study (4.1), for which no code was released.
- A learned alpha may change sign in the paper (S8.1); `floor` holds it. For S2 the floor is 0 unless given: below, the
  released mask is -inf on its own diagonal.

Weights fade but none is free of cost: a decay that vanishes can be cut off (`window`, section 3.4), and then cost is
linear in the number of tokens.
"""

from rearview.attention.rbca.layer import Decay, Layer, Settings, lend_decay, reference

__all__ = ["Decay", "Layer", "Settings", "lend_decay", "reference"]
