"""Write weights.safetensors beside this file, as the end of your training would."""

from pathlib import Path

import torch
from safetensors.torch import save_file

weights = {"weight": torch.tensor([[0.8, -1.2, 0.05, 2.0]]), "bias": torch.tensor([-1.0])}
save_file(weights, Path(__file__).with_name("weights.safetensors"))
