"""What the PyTorch peers share: the training loop."""

from ampnet.baselines.optimizers import optimizers_of

from .contest import Contestant, in_turn


def contestant(name, model, loss, batches, optimizer, lr):
    """Trains `model`; a batch's arrays are (what it takes, targets), `loss` is of its output and targets, a mean over examples.

    model.gradients() are named and laid out as ours.
    """
    optimizers = optimizers_of(model, optimizer, lr)

    def gradients():
        for one in optimizers:
            one.zero_grad()
        inputs, targets = batches[0].arrays
        value = loss(model(*inputs), targets)
        value.backward()
        return value.item(), {name: as_array(gradient) for name, gradient in model.gradients().items()}

    def train(inputs, targets):
        for one in optimizers:
            one.zero_grad()
        loss(model(*inputs), targets).backward()
        for one in optimizers:
            one.step()

    def finite():
        return all(p.isfinite().all() for p in model.parameters())

    return Contestant(name, in_turn(batches, train), gradients, batches[0].instances, finite=finite)


def as_array(gradient):
    return (gradient.to_dense() if gradient.is_sparse else gradient).numpy()
