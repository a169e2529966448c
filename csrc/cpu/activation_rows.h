// The activation rows of a matrix product and where their products go.
#pragma once
#include "../params/matmul.h"
#include "kernel.h"
#include "simd/simd.h"

namespace ferrule::cpu::FERRULE_ISA {

inline uint32_t min_u32(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

class ActivationRows {
  public:
    explicit ActivationRows(uint32_t n_rows) : count(n_rows) {}
    virtual ~ActivationRows() = default;

    virtual const uint8_t* at(size_t t) const = 0;
    // Takes the product of activation row t and weight row j, or weight rows j .. j + n - 1, n <= 16.
    virtual void finish(size_t t, uint32_t j, float sum) const = 0;
    virtual void finish(size_t t, uint32_t j, uint32_t n, simd::f32x16 sums) const = 0;

    const uint32_t count;
};

// Whether rows of n results, so many values in all, are stored past the caches: they leave a second-level cache before
// they are read, and storing would first read what they replace.
inline bool streams(const float* out, uint32_t n, size_t values) {
    return n % 16 == 0 && reinterpret_cast<uintptr_t>(out) % 64 == 0 && values * sizeof(float) > 1 << 20;
}

// Those of a matmul: out[t, j] = scale * sum + bias[j] + residual[t, j], rounded after each step.
class MatmulRows final : public ActivationRows {
  public:
    MatmulRows(const KernelArgs& args, size_t row_bytes)
        : ActivationRows(args.rows),
          x_(args.operand<const uint8_t>(matmul::x)),
          row_bytes_(row_bytes),
          scale_(args.as<Matmul>().scale),
          n_(args.as<Matmul>().n),
          bias_(args.operand<const float>(matmul::bias)),
          residual_(args.operand<const float>(matmul::residual)),
          out_(args.operand<float>(matmul::out)),
          streams_(residual_ == nullptr && streams(out_, n_, size_t{count} * n_)) {}
    ~MatmulRows() override {
        if (streams_) simd::stream_fence();
    }

    const uint8_t* at(size_t t) const override { return x_ + t * row_bytes_; }

    void finish(size_t t, uint32_t j, float sum) const override {
        float y = scale_ * sum;
        if (bias_) y += bias_[j];
        if (residual_) y += residual_[t * n_ + j];
        out_[t * n_ + j] = y;
    }
    void finish(size_t t, uint32_t j, uint32_t n, simd::f32x16 sums) const override {
        using namespace simd;
        f32x16 y = set1(scale_) * sums;
        if (bias_) y += load_partial(bias_ + j, n);
        if (residual_) y += load_partial(residual_ + t * n_ + j, n);
        streams_ ? stream(out_ + t * n_ + j, y) : store_partial(out_ + t * n_ + j, y, n);
    }

  private:
    const uint8_t* x_;
    size_t row_bytes_;
    float scale_;
    uint32_t n_;
    const float* bias_;
    const float* residual_;
    float* out_;
    bool streams_;
};

}  // namespace ferrule::cpu::FERRULE_ISA
