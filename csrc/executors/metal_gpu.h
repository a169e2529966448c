// A GPU with what its programs share: the queue, the kernels, and the buffers of weights and cache.
#pragma once
#import <Foundation/Foundation.h>
#import <Metal/Metal.h>

#include <map>
#include <mutex>
#include <utility>

#include "../params/signature.h"
#include "metal.h"
#include "retained.h"

namespace ferrule::metal {

using Bytes = std::span<const std::byte>;

struct Place {
    id<MTLBuffer> buffer = nil;
    uint64_t offset = 0;
};

std::string text(NSError* error);

// Memory that the GPU and the CPU share. Throws DeviceFailure, which says for what it was.
Retained<id<MTLBuffer>> allocate(id<MTLDevice> device, uint64_t bytes, const char* what);

struct Gpu final : Executor {
    struct Mapping {
        Bytes file;
        uint64_t begin;  // of the view
        Retained<id<MTLBuffer>> buffer;
    };

    std::mutex mutex;  // one bind or start of a step at a time
    Retained<id<MTLDevice>> gpu;
    Retained<id<MTLCommandQueue>> queue;
    Retained<id<MTLLibrary>> library;
    std::string newest;  // family
    std::vector<Bytes> files;
    std::vector<Mapping> mappings;
    std::vector<Retained<id<MTLBuffer>>> copy_buffers;
    std::map<std::pair<const std::byte*, size_t>, Place> copies;  // of weights that cannot be read in place
    std::weak_ptr<Retained<id<MTLBuffer>>> cache;                 // the host's, of `cache_memory`
    const std::byte* cache_memory = nullptr;
    std::map<std::pair<std::string, std::vector<uint32_t>>, Retained<id<MTLComputePipelineState>>> pipelines;

    Gpu(const std::string& library_path, std::span<const Bytes> mapped_files);
    std::string family() const override { return newest; }
    std::unique_ptr<Program> bind(Plan plan, std::span<const Bytes> weights, std::span<std::byte> cache) override;

    // Makes views of all files in which each of `weights` that lies in a file lies whole.
    void map_files(std::span<const Bytes> weights);
    Place find(Bytes weight) const;
    // Where the GPU reads each weight; what it cannot read in place is copied, once for all programs.
    std::vector<Place> place(std::span<const Bytes> weights);
    // One buffer for all programs, so that Metal sees which of their steps wait for each other.
    std::shared_ptr<Retained<id<MTLBuffer>>> wrap_cache(std::span<std::byte> memory);
    // The buffers of all weights that were placed so far.
    std::vector<id<MTLBuffer>> weight_buffers() const;
    id<MTLComputePipelineState> pipeline(const Launch& launch, const OpSignature& signature);
};

}  // namespace ferrule::metal
