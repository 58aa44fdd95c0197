"""Which operators a stored program may call: pure functions of tensors that check their own bounds.

Left out on purpose: what reads files (`from_file`), writes into its arguments, looks at memory by strides of the
caller's choice (`as_strided`), has had unchecked indices (`embedding_bag`), draws random numbers, or runs other code.
"""

_ARITHMETIC = """
abs add addcdiv addcmul addmm atan2 baddbmm bmm bitwise_and bitwise_not bitwise_or bitwise_xor ceil clamp clamp_max
clamp_min copysign cos cosh cumprod cumsum div dot einsum eq erf exp exp2 expm1 floor floor_divide fmod ge gt isfinite
isinf isnan le log log10 log1p log2 logical_and logical_not logical_or logical_xor lt matmul maximum minimum mm mul mv
ne neg outer pow reciprocal remainder round rsqrt rsub sign sin sinh sqrt square sub tan tanh trunc true_divide where
__and__ __or__ __xor__ acos asin atan lerp nan_to_num frac hypot logaddexp
"""
_REDUCTION = """
all amax amin any argmax argmin count_nonzero logsumexp max mean median min norm prod std sum var var_mean topk sort
argsort linalg_vector_norm cummax cummin
"""
_SHAPE = """
alias broadcast_to cat chunk clone contiguous detach diagonal expand expand_as flatten flip getitem movedim narrow
permute pixel_shuffle pixel_unshuffle repeat repeat_interleave reshape roll select slice split split_with_sizes
squeeze stack swapaxes t tile transpose tril triu unbind unflatten unfold unsqueeze view view_as lift_fresh_copy
_reshape_copy _unsafe_view select_copy slice_copy permute_copy expand_copy view_copy unsqueeze_copy squeeze_copy
transpose_copy
"""
_INDEX = (
    "embedding gather index index_select masked_fill masked_select one_hot scatter slice_scatter select_scatter take"
)
_CREATION = """
arange empty_like eye full full_like linspace new_full new_ones new_zeros ones ones_like scalar_tensor zeros
zeros_like _to_copy to type_as
"""
_NETWORK = """
_log_softmax _native_batch_norm_legit_no_training _softmax adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d
adaptive_max_pool1d adaptive_max_pool2d avg_pool1d avg_pool2d avg_pool3d celu channel_shuffle constant_pad_nd conv1d
conv2d conv3d conv_transpose1d conv_transpose2d convolution dropout elu feature_dropout gelu glu grid_sampler
group_norm hardshrink hardsigmoid hardswish hardtanh instance_norm layer_norm leaky_relu linear local_response_norm
log_sigmoid log_softmax max_pool1d max_pool2d max_pool2d_with_indices max_pool3d mish native_group_norm
native_layer_norm normalize pad pairwise_distance prelu reflection_pad1d reflection_pad2d relu relu6 replication_pad1d
replication_pad2d rms_norm scaled_dot_product_attention selu sigmoid silu softmax softplus softshrink softsign
tanhshrink threshold upsample_bicubic2d upsample_bilinear2d upsample_linear1d upsample_nearest1d upsample_nearest2d
upsample_nearest_exact2d
"""

ATEN = frozenset(" ".join((_ARITHMETIC, _REDUCTION, _SHAPE, _INDEX, _CREATION, _NETWORK, "sym_size")).split())
"""Names in torch.ops.aten, whatever the overload."""
INTEGER = frozenset({"add", "sub", "mul", "floordiv", "mod", "neg", "getitem"})
"""Calls on sizes, which are plain numbers when the program runs; `getitem` takes one of several results."""
WORDS = frozenset({"none", "tanh", "floor", "trunc", "constant", "reflect", "replicate", "circular", "ij", "xy"})
"""The only texts that an argument may be, but for the equation of `einsum`."""
