"""Basic blocks of low-level code, their loops, and the graph that is drawn of them."""

import re

import networkx as nx
import pytest

import explorer
from tests.widgets import made_by_hand as hand
from widgets.program import flow_graph
from widgets.program.flow_graph import Flow, flow

NESTED = """\
	.file	"x"
.LCPI0_0:
	.long	0
kernel:
	pushq	%rbx
	cmpq	%rsi, %rdi
	jge	.LBB0_5
.LBB0_1:
	xorl	%eax, %eax
	.p2align	4
.LBB0_2:
	vaddps	%zmm0, %zmm1, %zmm1
	cmpq	%rax, %rcx
	jl	.LBB0_2
	incq	%rdi
	cmpq	%rsi, %rdi
	jl	.LBB0_1
	jmp	.LBB0_6
.LBB0_5:
	nop
.LBB0_6:
	popq	%rbx
	retq
.Lfunc_end0:
	.size	kernel, .Lfunc_end0-kernel
"""
PTX = """\
.visible .entry kernel(
	.param .u64 kernel_param_0
)
{
	.reg .pred 	%p<2>;
	ld.param.u64 	%rd1, [kernel_param_0];
$L__BB0_1:
	add.s64 	%rd1, %rd1, 1;
	@%p1 bra 	$L__BB0_1;
	bra.uni 	$L__BB0_3;
	mov.u32 	%r1, 0;
$L__BB0_3:
	ret;
}
"""


@pytest.fixture(scope="module")
def kernels() -> list[object]:
    return list(explorer.compile("tests/data/tiny_resnet18.onnx").kernels)


def graph(found: Flow) -> nx.DiGraph:
    made = nx.DiGraph(found.edges)
    made.add_nodes_from(range(len(found.blocks)))
    return made


def test_blocks_end_at_jumps_and_begin_where_they_lead() -> None:
    found = flow(NESTED)
    assert [b.label for b in found.blocks] == [
        "",
        ".LBB0_1",
        ".LBB0_2",
        "",
        "",
        ".LBB0_5",
        ".LBB0_6",
    ]
    assert [len(b.lines) for b in found.blocks] == [3, 1, 3, 3, 1, 1, 2]
    assert set(found.edges) == {
        (0, 1), (0, 5), (1, 2), (2, 2), (2, 3), (3, 1), (3, 4), (4, 6), (5, 6)
    }  # fmt: skip
    assert found.back == {(2, 2), (3, 1)}
    assert found.loops == {2: frozenset({2}), 1: frozenset({1, 2, 3})}
    assert [(b.header, b.depth) for b in found.blocks[:5]] == [
        (-1, 0), (1, 1), (2, 2), (1, 1), (-1, 0)
    ]  # fmt: skip


def test_a_jump_of_ptx_goes_on_where_its_condition_may_not_hold() -> None:
    found = flow(PTX)
    assert [len(b.lines) for b in found.blocks] == [1, 2, 1, 1, 1]
    assert set(found.edges) == {(0, 1), (1, 1), (1, 2), (2, 4), (3, 4)}


def test_every_instruction_is_in_one_block_and_every_loop_begins_in_one_place(
    kernels: list[explorer.compiler.kernels.CompiledKernel],
) -> None:
    for kernel in kernels:
        text = kernel.listings.assembly.text
        found = flow(text)
        own = graph(found)
        inside = [at for b in found.blocks for at in b.lines]
        body = text[text.index(f"{kernel.code.machine.symbol}:") : text.index(".Lfunc_end0:")]
        assert len(inside) == len(set(inside)) == len(re.findall(r"^\t[a-z]", body, re.MULTILINE))
        assert set(nx.descendants(own, 0)) | {0} == set(own)
        above = nx.immediate_dominators(own, 0)
        for a, header in found.back:
            way = [a]
            while way[-1] and way[-1] != header:
                way.append(above[way[-1]])
            assert way[-1] == header, "a jump into the middle of a loop"
        circles = [c for c in nx.strongly_connected_components(own) if len(c) > 1]
        assert all(any(header in c for header in found.loops) for c in circles)
        assert nx.is_directed_acyclic_graph(nx.DiGraph(set(found.edges) - found.back))


def test_the_graph_goes_downwards_but_for_the_beginnings_of_loops(
    kernels: list[explorer.compiler.kernels.CompiledKernel],
) -> None:
    rows = flow_graph.data(max(kernels, key=lambda k: len(k.listings.assembly.text)))
    layer = {node: y for y, row in enumerate(rows.layers.rows) for node in row}
    assert rows.forward and all(layer[a] < layer[b] for a, b in rows.forward)
    assert rows.back and all(rows.nodes[b].begins for _, b in rows.back)
    drawn = flow_graph.figure(rows).text()
    assert drawn.count('class="block"') == len(rows.nodes) == len(flow_graph.table(rows).rows)
    assert drawn.count('tabindex="0"') == 1


def test_many_blocks_are_folded_by_their_innermost_loops(
    kernels: list[explorer.compiler.kernels.CompiledKernel],
) -> None:
    kernel = max(kernels, key=lambda k: len(k.listings.assembly.text))
    all_, few = flow_graph.data(kernel, 10_000), flow_graph.data(kernel, 12)
    assert len(few.nodes) < len(all_.nodes) == all_.blocks == few.blocks
    inside = sorted(b for n in few.nodes for b in n.blocks)
    assert inside == list(range(all_.blocks))
    assert sum(n.instructions for n in few.nodes) == sum(n.instructions for n in all_.nodes)
    assert any(n.name.startswith("loop of") for n in few.nodes)
    assert f"folded to {len(few.nodes)} nodes" in flow_graph.caption(few)


def test_a_folded_loop_is_opened_and_shows_the_loops_in_it(
    kernels: list[explorer.compiler.kernels.CompiledKernel],
) -> None:
    kernel = max(kernels, key=lambda k: len(k.listings.assembly.text))
    few = flow_graph.data(kernel, 12)
    folds = [n for n in few.nodes if len(n.blocks) > 1]
    largest = max(folds, key=lambda n: len(n.blocks))
    more = flow_graph.data(kernel, 12, opened={largest.head})
    mine = [n for n in more.nodes if set(n.blocks) <= set(largest.blocks)]
    assert len(mine) > 1 and sorted(b for n in mine for b in n.blocks) == sorted(largest.blocks)
    assert next(n for n in mine if largest.head in n.blocks).head == largest.head
    others = [n for n in few.nodes if n is not largest]
    assert others == [n for n in more.nodes if n not in mine]  # all else is folded as it was
    every = flow_graph.data(kernel, 12, opened=range(few.blocks))
    assert every.nodes == flow_graph.data(kernel, 10_000).nodes
    drawn = flow_graph.figure(few).text()
    assert drawn.count(" data-loop=") == len(folds) and "or + opens it" in drawn


def test_a_text_without_a_function_has_no_blocks() -> None:
    assert flow("// no PTX here\n").blocks == ()
    kernel = hand.HandMade().kernels[0]
    rows = flow_graph.data(kernel)
    assert [n.instructions for n in rows.nodes] == [3] and rows.loops == 0
