"""What a card offers: memory, bandwidth, dense matrix rates. One row a card, each with its source.

Only figures that a document states are here; an absent one is None. `flops` are dense rates: where a datasheet
states them with sparsity, half of that stands here. Datasheets count memory in units of 2^30 bytes although they write
GB; what the driver shows is a little less (`visible_gib`), and on GDDR6 with ECC a sixteenth less.
"""

from __future__ import annotations

from servegate.domain.records import Record


class Card(Record):
    """One card. Bandwidth in GB/s (10^9 bytes), rates in TFLOP/s, dense, with 32-bit accumulation."""

    name: str
    nvml_names: tuple[str, ...]
    """Names by which the driver knows it, without `NVIDIA` in front."""
    compute_capability: str
    memory_gib: float
    bandwidth_gb_s: float
    bf16_tflops: float | None = None
    fp8_tflops: float | None = None
    fp4_tflops: float | None = None
    source: str
    visible_gib: float | None = None
    """Memory that programs see, where it has been seen; `visible_source` says by whom."""
    visible_source: str | None = None


_REPORTED = "nvidia-smi totals in https://github.com/modal-labs/modal-client/pull/2797"

CARDS: tuple[Card, ...] = (
    Card(
        name="H200", nvml_names=("H200",), compute_capability="9.0", memory_gib=141, bandwidth_gb_s=4800,
        bf16_tflops=989.5, fp8_tflops=1979, source="NVIDIA H200 Tensor Core GPU Datasheet (H200 SXM)",
        visible_gib=139.8, visible_source="start-up log of vLLM 0.25.1 on this card",
    ),
    Card(
        name="H200 NVL", nvml_names=("H200 NVL",), compute_capability="9.0", memory_gib=141, bandwidth_gb_s=4800,
        bf16_tflops=835.5, fp8_tflops=1670.5, source="NVIDIA H200 Tensor Core GPU Datasheet (H200 NVL)",
    ),
    Card(
        name="H100", nvml_names=("H100 80GB HBM3",), compute_capability="9.0", memory_gib=80, bandwidth_gb_s=3350,
        bf16_tflops=989.5, fp8_tflops=1979, source="NVIDIA H100 Tensor Core GPU Datasheet (H100 SXM)",
        visible_gib=79.65, visible_source=_REPORTED,
    ),
    Card(
        name="H100 PCIe", nvml_names=("H100 PCIe",), compute_capability="9.0", memory_gib=80, bandwidth_gb_s=2000,
        bf16_tflops=756.5, fp8_tflops=1513, source="NVIDIA H100 Tensor Core GPU Datasheet (H100 PCIe)",
    ),
    Card(
        name="H100 NVL", nvml_names=("H100 NVL",), compute_capability="9.0", memory_gib=94, bandwidth_gb_s=3900,
        bf16_tflops=835.5, fp8_tflops=1670.5, source="NVIDIA H100 Tensor Core GPU Datasheet (H100 NVL)",
    ),
    Card(
        name="B200", nvml_names=("B200",), compute_capability="10.0", memory_gib=180, bandwidth_gb_s=8000,
        bf16_tflops=2250, fp8_tflops=4500, fp4_tflops=9000, source="NVIDIA DGX B200 Datasheet, one of its eight GPUs",
        visible_gib=178.35, visible_source="device query in https://github.com/pytorch/ao/pull/4002",
    ),
    Card(
        name="RTX PRO 6000", nvml_names=("RTX PRO 6000 Blackwell Workstation Edition",), compute_capability="12.0",
        memory_gib=96, bandwidth_gb_s=1792, fp4_tflops=2000,
        source="NVIDIA RTX PRO 6000 Blackwell Workstation Edition Datasheet (4000 AI TOPS are FP4 with sparsity)",
    ),
    Card(
        name="RTX PRO 6000 Max-Q", nvml_names=("RTX PRO 6000 Blackwell Max-Q Workstation Edition",), compute_capability="12.0",
        memory_gib=96, bandwidth_gb_s=1792,
        source="NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition Datasheet",
    ),
    Card(
        name="RTX 5090", nvml_names=("GeForce RTX 5090",), compute_capability="12.0", memory_gib=32, bandwidth_gb_s=1792,
        bf16_tflops=209.5, fp8_tflops=419, fp4_tflops=1676, source="NVIDIA RTX Blackwell GPU Architecture whitepaper, appendix",
    ),
    Card(
        name="RTX 5070 Ti", nvml_names=("GeForce RTX 5070 Ti",), compute_capability="12.0", memory_gib=16, bandwidth_gb_s=896,
        source="NVIDIA RTX Blackwell GPU Architecture whitepaper, appendix",
    ),
    Card(
        name="RTX 4090", nvml_names=("GeForce RTX 4090",), compute_capability="8.9", memory_gib=24, bandwidth_gb_s=1008,
        bf16_tflops=165.2, fp8_tflops=330.3, source="NVIDIA Ada GPU Architecture whitepaper, appendix A",
    ),
    Card(
        name="L40S", nvml_names=("L40S",), compute_capability="8.9", memory_gib=48, bandwidth_gb_s=864,
        bf16_tflops=362.05, fp8_tflops=733, source="NVIDIA L40S Datasheet",
        visible_gib=44.99, visible_source=_REPORTED,
    ),
    Card(
        name="L4", nvml_names=("L4",), compute_capability="8.9", memory_gib=24, bandwidth_gb_s=300,
        bf16_tflops=121, fp8_tflops=242.5, source="NVIDIA L4 Tensor Core GPU Datasheet",
        visible_gib=22.49, visible_source=_REPORTED,
    ),
    Card(
        name="RTX 6000 Ada", nvml_names=("RTX 6000 Ada Generation",), compute_capability="8.9", memory_gib=48,
        bandwidth_gb_s=960, source="NVIDIA RTX 6000 Ada Generation Datasheet",
    ),
    Card(
        name="A100", nvml_names=("A100-SXM4-80GB",), compute_capability="8.0", memory_gib=80, bandwidth_gb_s=2039,
        bf16_tflops=312, source="NVIDIA A100 Tensor Core GPU Datasheet (A100 80GB SXM)",
        visible_gib=80.0, visible_source=_REPORTED,
    ),
    Card(
        name="A100 PCIe", nvml_names=("A100 80GB PCIe",), compute_capability="8.0", memory_gib=80, bandwidth_gb_s=1935,
        bf16_tflops=312, source="NVIDIA A100 Tensor Core GPU Datasheet (A100 80GB PCIe)",
        visible_gib=80.0, visible_source=_REPORTED,
    ),
    Card(
        name="A10", nvml_names=("A10",), compute_capability="8.6", memory_gib=24, bandwidth_gb_s=600,
        bf16_tflops=125, source="NVIDIA A10 Tensor Core GPU Datasheet",
        visible_gib=22.49, visible_source=_REPORTED,
    ),
)  # fmt: skip
