"""The strict pass accepts every kernel of the project, and refuses what Apple's compiler refuses."""

import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).parent / "tools"
KERNELS = sorted((Path(__file__).parents[2] / "metal").glob("*.metal"))

# Statements of a kernel with `device float* x`, `constant uint& n`, `uint t` and `threadgroup float s[64]`; what stands
# before ### goes before the kernel.
REFUSED = {
    "device to threadgroup pointer": "threadgroup float* p = x; p[0] = 1;",
    "threadgroup to device pointer": "device float* p = s; p[0] = 1;",
    "thread to device pointer": "float y = 0; device float* p = &y; p[0] = 1;",
    "cast of device to threadgroup": "threadgroup float* p = (threadgroup float*)x; p[0] = 1;",
    "device argument for a thread reference": "void f(thread float& a) { a = 1; } ### f(x[t]);",
    "threadgroup argument for a device pointer": "void f(device float* a) { a[0] = 1; } ### f(s);",
    "parameter without address space": "float f(float* a) { return a[0]; } ### float y = 1; x[t] = f(&y);",
    "local pointer without address space": "float* p = x + t; *p = 1;",
    "local reference without address space": "float& r = x[t]; r = 1;",
    "write to constant memory": "n = 3;",
    "member function without address space": (
        "struct S { float a; float get() { return a; } }; ### device S* p = (device S*)x; x[0] = p[0].get();"
    ),
    "double": "double d = x[t]; x[t] = d;",
    "recursion": "int f(int a) { return a != 0 ? f(a - 1) + 1 : 0; } ### x[t] = f(t);",
    "virtual": "struct V { virtual int f() { return 1; } }; ### x[t] = 0;",
    "new": "auto p = new int(3); x[t] = *p;",
    "exceptions": "if (t != 0) throw 1;",
    "standard library": "x[t] = std::max(1.0f, 2.0f);",
    "standard header": "#include <cmath>\n### x[t] = 0;",
    "C library": "x[t] = sqrtf(x[t]);",
    "pointer to a function": "float g(float a) { return a; } ### float (*f)(float) = g; x[t] = f(1);",
    "goto": "goto end; end: x[t] = 1;",
    "mutable variable outside functions": "int counter = 0; ### counter++;",
    "static variable": "static int c; c++;",
    "initialised threadgroup variable": "threadgroup float u[2] = {1, 2}; x[t] = u[0] + s[0];",
    "threadgroup variable in a function": "float f() { threadgroup float u[4]; return u[0]; } ### x[t] = f();",
    "vectors of different types": "half4 h = half4(1.0h); float4 f = h; x[t] = f.x;",
    "vectors of different sizes": "float3 f = float4(1.0f); x[t] = f.x;",
    "too few components": "float4 f = float4(1.0f, 2.0f, 3.0f); x[t] = f.x;",
    "comparison of vectors": "float2 a = float2(x[t]); x[t] = (a < float2(1.0f)).x ? 1.0f : 0.0f;",
    "cast to a vector": "float2 a = (float2)x[t]; x[t] = a.x;",
    "sum of bools": "x[t] = simd_sum(true);",
    "arguments of different types": "x[t] = max(x[t], 1);",
    "template that is never instantiated": (
        "template <class T> kernel void k2(device T* y [[buffer(0)]]) { y[0] = 0; } ### x[t] = 1;"
    ),
    "fault in a template": (
        "template <class T> kernel void k2(device T* y [[buffer(0)]]) { threadgroup T* p = y; p[0] = 0; }\n"
        'template [[host_name("k2_f32")]] kernel decltype(k2<float>) k2<float>; ### x[t] = 1;'
    ),
    "parameter without index": "kernel void k2(device float* y) { y[0] = 0; } ### x[t] = 1;",
    "parameter in the wrong address space": "kernel void k2(thread float* y [[buffer(0)]]) { y[0] = 0; } ### x[t] = 1;",
    "unknown attribute": "kernel void k2(uint i [[vertex_id]]) { (void)i; } ### x[t] = 1;",
    "kernel with a result": "kernel float k2(device float* y [[buffer(0)]]) { return y[0]; } ### x[t] = 1;",
}

ACCEPTED = """
struct S { float a[4]; };
struct Getter { float a; float get() const device { return a; } };
constant float table[4] = {1, 2, 3, 4};
constant bool given [[function_constant(3)]];
constant bool used = is_function_constant_defined(given) ? given : true;
template <class P> static float load(P p) { return p[0]; }
template <class T> static float first(device const T* p) { return float(vec<T, 4>(p[0], p[1], p[2], p[3]).x); }
###
half h = x[t];
float4 v = float4(x[0], 1, float2(h));
v.xy = v.zw;
v.wzyx = v;
const half2 halves = as_type<half2>(as_type<uint>(x[t]));
device const S* structs = (device const S*)x;
const S copy = structs[1];
s[t] = 1.0h + max(x[t], 0.0) + table[t & 3] + float2(halves).x + copy.a[1] + first(x) + v.y + (used ? 1 : n);
threadgroup_barrier(mem_flags::mem_threadgroup);
x[t] = load(x) + load((threadgroup const float*)s) + ((device const Getter*)x)->get() + float(bfloat(x[t]));
"""


def check(source: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(TOOLS / "strict.py"), str(source)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def write_kernel(directory: Path, code: str) -> Path:
    before, _, statements = code.rpartition("###")
    source = directory / "case.metal"
    source.write_text(
        f"#include <metal_stdlib>\nusing namespace metal;\n{before}\n"
        "kernel void k(device float* x [[buffer(0)]], constant uint& n [[buffer(1)]],\n"
        "              uint t [[thread_position_in_grid]]) {\n"
        f"    threadgroup float s[64];\n    (void)x, (void)n, (void)t, (void)s;\n    {statements}\n}}\n"
    )
    return source


@pytest.mark.parametrize("source", KERNELS, ids=lambda path: path.stem)
def test_project_kernel(source: Path) -> None:
    result = check(source)
    assert result.returncode == 0, result.stderr


def test_accepted(tmp_path: Path) -> None:
    result = check(write_kernel(tmp_path, ACCEPTED))
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("code", REFUSED.values(), ids=REFUSED)
def test_refused(tmp_path: Path, code: str) -> None:
    result = check(write_kernel(tmp_path, code))
    assert result.returncode == 1
    assert "error" in result.stderr
    assert "Traceback" not in result.stderr
