"""Losses and their gradients, compiled without fast-math: a NaN or an infinity in the input shows in the loss."""

import math

from .compile import exact_kernel


@exact_kernel
def softmax_cross_entropy(logits, labels, gradient, scale, with_gradient):
    """L = sum over rows of -log softmax(x)[label]; gradient = (softmax(x) - onehot(label)) * scale.

    logits, gradient (rows, classes) float32, may be the same array; labels (rows,) float32 holding whole numbers.
    Returns (loss float64, rows whose first largest logit is at the label). The loss is not finite if any logit is not.
    """
    loss, correct = 0.0, 0
    classes = logits.shape[1]
    for r in range(logits.shape[0]):
        label, best = int(labels[r]), 0
        for j in range(1, classes):
            if logits[r, j] > logits[r, best]:
                best = j
        largest, total, trap = float(logits[r, best]), 0.0, 0.0
        for j in range(classes):
            total += math.exp(logits[r, j] - largest)
            trap += 0.0 * logits[r, j]  # 0, or NaN where the logit is -inf, whose exponential 0 would hide it
        loss += math.log(total) + largest - logits[r, label] + trap
        correct += label == best
        if with_gradient:
            for j in range(classes):
                p = math.exp(logits[r, j] - largest) / total
                gradient[r, j] = (p - (1.0 if j == label else 0.0)) * scale
    return loss, correct


@exact_kernel
def select_row(scores, answer, gradient, with_gradient):
    """L = -log softmax(x)[answer]; gradient = softmax(x) - onehot(answer). scores, gradient (rows,), may be the same.

    Returns (loss float64, number of the first largest score). The loss is not finite if any score is not.
    """
    best = 0
    for i in range(1, len(scores)):
        if scores[i] > scores[best]:
            best = i
    largest, total, trap = float(scores[best]), 0.0, 0.0
    for i in range(len(scores)):
        total += math.exp(scores[i] - largest)
        trap += 0.0 * scores[i]
    loss = math.log(total) + largest - scores[answer] + trap
    if with_gradient:
        for i in range(len(scores)):
            gradient[i] = math.exp(scores[i] - largest) / total - (1.0 if i == answer else 0.0)
    return loss, best


@exact_kernel
def squared_error(predictions, targets, gradient, scale, with_gradient):
    """L = sum of 1/2 (p - t)^2; gradient = (p - t) * scale. All (rows, cols) float32; gradient may be predictions.

    Returns (loss float64, sum of |p - t| float64).
    """
    loss, error = 0.0, 0.0
    for r in range(predictions.shape[0]):
        for j in range(predictions.shape[1]):
            difference = float(predictions[r, j]) - float(targets[r, j])
            loss += 0.5 * difference * difference
            error += abs(difference)
            if with_gradient:
                gradient[r, j] = difference * scale
    return loss, error
