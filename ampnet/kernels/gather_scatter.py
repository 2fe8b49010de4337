from .compile import kernel
@kernel
def gather(w, ids, out):
    for i in range(len(ids)):
        k = int(ids[i])
        for j in range(w.shape[1]):
            out[i, j] = w[k, j]
@kernel
def scatter_add(g, ids, d):
    for i in range(len(ids)):
        k = int(ids[i])
        for j in range(g.shape[1]):
            g[k, j] += d[i, j]
