"""FuseOps and FuseTIR (Relax, section 4.2): operators grouped along a post-dominator tree.

Groups follow the pattern kinds of their kernels, and the kernels of a group become one. The paper's
nouns here: dataflow graph (`FusionGraph`), post-dominator tree (`Dominator`), group with its anchor
(`BindingGroup`), the fused function with its extra shape parameter (`GroupFunction`).
"""

from explorer.relax.fusion.graph import graph_of
from explorer.relax.fusion.model import BindingGroup, FusionGraph, FusionPlan, GroupFunction
from explorer.relax.fusion.policy import Limits, plan
from explorer.relax.fusion.transform import FuseOps, group_function

__all__ = [
    "BindingGroup",
    "FuseOps",
    "FusionGraph",
    "FusionPlan",
    "GroupFunction",
    "Limits",
    "graph_of",
    "group_function",
    "plan",
]
