"""Whether somebody waits for a module's call: where several modules run as one, such a module is called by itself."""

from torch import nn
from torch.nn.modules.module import _has_any_global_hook


def watched(module: nn.Module) -> bool:
    """Whether a hook waits for this module to be called, or for any module."""
    hooks = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks)
    return any(hooks) or bool(_has_any_global_hook())
