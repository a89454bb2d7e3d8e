"""A rank in the tests of Hugging Face and Lightning: `framework_ranks.py WHAT RANK PORT FOLDER [PROTECTED]`.

A program of its own, started as torchrun would start it: the frameworks make their process groups themselves.
"""

import os
import pickle
import sys
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import Dataset

import mixtailor as mt

COUNT, STEPS = 3, 12
RULE = mt.Comed()


def _launched(rank, count, port):
    """The variables that torchrun sets."""
    numbers = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count, "MASTER_PORT": port}
    os.environ.update({name: str(number) for name, number in numbers.items()})
    os.environ.update({"MASTER_ADDR": "127.0.0.1", "TORCHELASTIC_RUN_ID": "test", "GROUP_RANK": "0"})


def _corrupt(model, rank, count):
    """The last rank's gradients are wrong from the moment they are computed."""
    if rank == count - 1:
        for item in model.parameters():
            item.register_hook(lambda gradient: -1e4 * gradient)


def _flat(model):
    return np.concatenate([item.detach().float().numpy().reshape(-1) for item in model.parameters()])


class Tokens(Dataset):
    """Sequences that count upwards, which a small model learns in a few steps."""

    def __len__(self):
        return 96

    def __getitem__(self, at):
        tokens = (torch.arange(8) + at) % 16
        return {"input_ids": tokens, "labels": tokens}


def _gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    drop = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    return GPT2LMHeadModel(GPT2Config(vocab_size=16, n_positions=8, n_embd=16, n_layer=1, n_head=2, **drop))


def _loss(model):
    batch = [Tokens()[at] for at in range(16)]
    tokens = torch.stack([item["input_ids"] for item in batch])
    model.eval()
    with torch.no_grad():
        return float(model(input_ids=tokens, labels=tokens).loss)


def trainer(rank, count, port, folder, protected):
    """Hugging Face's Trainer, in bfloat16, with accumulated gradients and clipping: both losses, and the model."""
    _launched(rank, count, port)
    from transformers import Trainer, TrainingArguments

    from mixtailor.engines.huggingface import RobustCallback

    model = _gpt2()
    before = _loss(model)
    _corrupt(model, rank, count)
    arguments = TrainingArguments(
        output_dir=str(folder), use_cpu=True, max_steps=STEPS, per_device_train_batch_size=4, learning_rate=0.3,
        gradient_accumulation_steps=2, max_grad_norm=1.0, report_to=[], save_strategy="no", disable_tqdm=True,
        logging_strategy="no", optim="sgd", lr_scheduler_type="constant", ddp_backend="gloo", bf16=True,
    )  # fmt: skip
    callback = RobustCallback(RULE)
    made = Trainer(model, arguments, train_dataset=Tokens(), callbacks=[callback] if protected else [])
    made.train()
    return before, _loss(model), _flat(model), callback.hook.last.n if protected else None


def again(rank, count, port, folder):
    """One model trained again: by the same Trainer, by a second one beside the first, and by the first once more."""
    _launched(rank, count, port)
    from transformers import Trainer, TrainingArguments

    from mixtailor.engines.huggingface import RobustCallback

    model = _gpt2()
    before = _loss(model)
    _corrupt(model, rank, count)
    arguments = TrainingArguments(
        output_dir=str(folder), use_cpu=True, max_steps=4, per_device_train_batch_size=4, learning_rate=0.3,
        report_to=[], save_strategy="no", disable_tqdm=True, logging_strategy="no", optim="sgd",
        lr_scheduler_type="constant", ddp_backend="gloo",
    )  # fmt: skip
    callbacks = [RobustCallback(RULE), RobustCallback(mt.TrimmedMean(1))]
    trainers = [Trainer(model, arguments, train_dataset=Tokens(), callbacks=[callback]) for callback in callbacks]
    rules = []
    for place in (0, 0, 1, 0):
        trainers[place].train()
        rules.append(repr(callbacks[place].hook.last.rule))
    assert rules == ["Comed()", "Comed()", "TrimmedMean(f=1)", "Comed()"], rules
    return before, _loss(model), _flat(model), callbacks[0].hook.last.n


def accelerate(rank, count, port, folder):
    """A plain loop with Accelerate, and one line more."""
    _launched(rank, count, port)
    from accelerate import Accelerator

    from mixtailor.engines.distributed import protect

    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    model = _gpt2()
    before = _loss(model)
    _corrupt(model, rank, count)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    loader = torch.utils.data.DataLoader(Tokens(), batch_size=4)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    hook = protect(model, RULE)
    model.train()
    for _ in range(3):
        for batch in loader:
            with accelerator.accumulate(model):
                accelerator.backward(model(**batch).loss)
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
    plain = accelerator.unwrap_model(model)
    return before, _loss(plain), _flat(plain), hook.last.n


TRUTH = torch.tensor([[1.0], [-2.0], [0.5]])


def _pairs():
    inputs = torch.from_numpy(np.random.default_rng(0).normal(size=(96, 3))).float()
    return torch.utils.data.TensorDataset(inputs, inputs @ TRUTH)


def _squared(model):
    inputs, targets = _pairs().tensors
    with torch.no_grad():
        return float(torch.nn.functional.mse_loss(model(inputs), targets))


def _line():
    from lightning.pytorch import LightningModule

    class Line(LightningModule):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.layer = torch.nn.Linear(3, 1)

        def forward(self, inputs):
            return self.layer(inputs)

        def training_step(self, batch, _):
            return torch.nn.functional.mse_loss(self(batch[0]), batch[1])

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    return Line()


def lightning(rank, count, port, folder, protected):
    """Lightning's Trainer with strategy="ddp" on the CPU, accumulated gradients and clipping, trained twice."""
    _launched(rank, count, port)
    from lightning.pytorch import Trainer

    from mixtailor.engines.lightning import RobustCallback

    model, callback = _line(), RobustCallback(RULE)
    before = _squared(model)
    _corrupt(model, rank, count)
    for _ in range(2):  # the second training wraps the model again, while the first wrapper may still be there
        made = Trainer(
            accelerator="cpu", devices=count, strategy="ddp", max_epochs=2, accumulate_grad_batches=2, logger=False,
            gradient_clip_val=5.0, callbacks=[callback] if protected else [], enable_checkpointing=False,
            enable_progress_bar=False, enable_model_summary=False, default_root_dir=str(folder),
        )  # fmt: skip
        made.fit(model, torch.utils.data.DataLoader(_pairs(), batch_size=4))
    return before, _squared(model), _flat(model), callback.hook.last.n if protected else None


def fabric(rank, count, port, folder):
    """A plain loop with Fabric, and one line more."""
    _launched(rank, count, port)
    from lightning.fabric import Fabric

    from mixtailor.engines.distributed import protect

    made = Fabric(accelerator="cpu", devices=count, strategy="ddp")
    made.launch()
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 1)
    before = _squared(model)
    _corrupt(model, rank, count)
    wrapped, optimizer = made.setup(model, torch.optim.SGD(model.parameters(), lr=0.1))
    hook = protect(wrapped, RULE)
    for inputs, targets in made.setup_dataloaders(torch.utils.data.DataLoader(_pairs(), batch_size=4)):
        optimizer.zero_grad()
        made.backward(torch.nn.functional.mse_loss(wrapped(inputs), targets))
        optimizer.step()
    return before, _squared(model), _flat(model), hook.last.n


def main():
    name, rank, port, folder, *protected = sys.argv[1:]
    torch.set_num_threads(1)
    arguments = [bool(int(one)) for one in protected]
    found = globals()[name](int(rank), COUNT, int(port), Path(folder) / f"of{rank}", *arguments)
    (Path(folder) / f"rank{rank}").write_bytes(pickle.dumps(found))


if __name__ == "__main__":
    main()
