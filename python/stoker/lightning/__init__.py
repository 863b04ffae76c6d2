# SPDX-License-Identifier: Apache-2.0
"""PyTorch Lightning: data that goes on where it was, and what the training waits for.

    from stoker.lightning import StallMonitor, StokerDataModule

    data = StokerDataModule(train=dict(dataset="mnist:data/mnist", shuffle=True), val="mnist:data/mnist?split=test",
                            batch_size=64, transforms="normalize(mnist)")
    Trainer(callbacks=[StallMonitor()]).fit(model, datamodule=data)
"""
from __future__ import annotations

from stoker.lightning._data import BatchTransform, StokerDataModule
from stoker.lightning._stall import StallMonitor

__all__ = ["BatchTransform", "StallMonitor", "StokerDataModule"]
