"""A contest's result as a Markdown table."""

from statistics import median


def table(work, data, result, flops, settings, updates):
    """Heading, conditions, a row a contestant.

    data, settings: what it trained on, and how ours did, in words; flops: of an example; updates: (our fewest for a batch of
    peers', the node's name). A contestant's share of the peak is that of these flops, whatever it computes besides.
    """
    ours, peak = median(result.rates["ours"]), median(result.peaks)
    batch = f"{work.batch} instances" if work.batch > 1 else "an instance"
    lines = [
        f"### {work.name}: {work.title}", "",
        f"{data}. Ours: {settings}; every node makes at least {updates[0]:.2f} updates for {batch} ({updates[1]} does). "
        f"An example takes {flops / 1e6:.3g} MFLOP, the machine's peak is {peak:.0f} GFLOP/s.", "",
        f"| | {work.examples}/s | range | ours to it | of peak |", "|---|---|---|---|---|"]
    for name, rates in result.rates.items():
        middle = median(rates)
        ratio = "" if name == "ours" else f"{ours / middle:.2f}"
        share = flops * middle / (1e9 * peak)
        lines.append(f"| {name} | {_number(middle)} | {_number(min(rates))} - {_number(max(rates))} | {ratio} | {share:.1%} |")
    return "\n".join(lines)


def _number(rate):
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"
