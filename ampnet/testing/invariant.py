"""The invariant: every forward message is answered by exactly one backward message, and nothing is left behind."""

import numpy as np


def check_drained(machine, run):
    """Raise AssertionError where a run broke the invariant. Call it after `flush` or `gather_held`."""
    engine, graph = machine.engine, machine.graph
    for node in graph.nodes:
        for output in node.outputs:
            target, port = output.target
            there = run.received_forward[int(engine.nodes[target.number].record["first_input"][0]) + port]
            back = run.received_backward[int(engine.nodes[node.number].record["first_output"][0]) - engine.inputs + output.port]
            assert there == back, f"{output} sent {there} messages and got {back} answers"
    for node, kept in zip(graph.nodes, engine.states_kept(), strict=True):
        assert kept == 0, f"'{node.name}' still keeps {kept} states"
    assert engine.messages_waiting() == 0, "messages are still waiting"
    assert engine.blocks_alive() == 0, f"{engine.blocks_alive()} blocks were not freed"
    assert np.all(run.received_forward >= 0)
