"""Programs without a language model: inferprof must claim no tokens, layers or model for them.

    inferprof run -- python3 tests/gpu/step_other.py cupy|image|train|sort|products
"""
import sys


def run_cupy():
    import cupy as cp
    a, x = cp.random.random((2048, 2048), dtype=cp.float32), cp.ones(2048, dtype=cp.float32)
    for _ in range(200):
        y = a @ x
        value = float(cp.linalg.norm(y))
        x = y / value
    print(value)


def run_image():
    import torch
    import torchvision
    model = torchvision.models.resnet50().cuda().eval().half()
    with torch.inference_mode():
        for _ in range(30):
            images = torch.randn(8, 3, 224, 224, dtype=torch.half).cuda()
            print(model(images).argmax(-1).cpu().tolist(), end=" ")


def run_train():
    import torch
    layer = torch.nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True, norm_first=True)
    model = torch.nn.Sequential(torch.nn.Embedding(8000, 512), torch.nn.TransformerEncoder(layer, 4), torch.nn.Linear(512, 8000)).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(25):
        ids = torch.randint(0, 8000, (8, 128)).cuda()
        loss = torch.nn.functional.cross_entropy(model(ids).flatten(0, 1), ids.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(loss.item(), end=" ")


def run_sort():
    import torch
    x = torch.randn(1 << 20, device="cuda")
    for _ in range(100):
        y = torch.sort(x)[0].cumsum(0)
        print(int(y.argmax()), end=" ")
        x = torch.sin(x) + 0.1


def run_products():
    """Matrix products of the sizes of a decoder, without attention; the result is read every time."""
    import torch
    up, down = torch.randn(4096, 11008, device="cuda", dtype=torch.bfloat16), torch.randn(11008, 4096, device="cuda", dtype=torch.bfloat16)
    x = torch.randn(1, 4096, device="cuda", dtype=torch.bfloat16)
    for _ in range(100):
        for _ in range(8):
            x = torch.nn.functional.rms_norm(torch.nn.functional.silu(x @ up) @ down, (4096,))
        print(int(x.argmax()), end=" ")


{"products": run_products, "cupy": run_cupy, "image": run_image, "train": run_train, "sort": run_sort}[sys.argv[1]]()
