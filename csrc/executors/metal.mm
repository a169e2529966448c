// A GPU and where it finds what steps read. Memory is shared with the CPU: weights are read from the mapped file, the
// cache is the host's.
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "device_failure.h"
#include "metal_gpu.h"
#include "metal_program.h"
#include "views.h"

namespace ferrule::metal {

namespace {

constexpr uint64_t kOffsetAlignment = 4;  // of offsets into buffers

uint64_t page_bytes() {
    return static_cast<uint64_t>(getpagesize());
}

NSString* ns_string(const std::string& string) {
    return [NSString stringWithUTF8String:string.c_str()];
}

// A buffer over memory that begins at a page; the rest of its last page belongs to the same mapping.
Retained<id<MTLBuffer>> wrap(id<MTLDevice> device, const std::byte* data, uint64_t bytes, const char* what) {
    // Metal has one pointer type; the plan says what is only read.
    Retained<id<MTLBuffer>> buffer([device newBufferWithBytesNoCopy:const_cast<std::byte*>(data)
                                                             length:round_up(bytes, page_bytes())
                                                            options:MTLResourceStorageModeShared
                                                        deallocator:nil]);
    if (!buffer) {
        throw DeviceFailure("the GPU cannot use " + std::to_string(bytes) + " bytes of " + what +
                            " in one buffer; its limit is " + std::to_string(device.maxBufferLength));
    }
    return buffer;
}

std::string newest_family(id<MTLDevice> device) {
    constexpr NSInteger kOldest = 7, kNewest = 10;  // M1 ... M5
    for (NSInteger number = kNewest; number >= kOldest; --number) {
        const auto family = static_cast<MTLGPUFamily>(MTLGPUFamilyApple7 + number - kOldest);
        if ([device supportsFamily:family]) return "apple" + std::to_string(number);
    }
    throw DeviceFailure(std::string(device.name.UTF8String) + " is not an Apple GPU of family 7 (M1) or later");
}

// The value of a function constant by its name, see csrc/params/metal_dispatch.h: has_<operand> or fc_<field>. 32 bits,
// as the launch's parameters hold them.
uint32_t constant_value(const std::string& name, const Launch& launch, const OpSignature& signature) {
    for (size_t i = 0; i < signature.operands.size(); ++i) {
        if (name == std::string("has_") + signature.operands[i].name) {
            return launch.operands[i].kind != OperandKind::none;
        }
    }
    for (const ParamField& field : signature.fields) {
        if (name != std::string("fc_") + field.name) continue;
        uint32_t value;
        std::memcpy(&value, launch.params.data() + field.offset, sizeof value);
        return value;
    }
    throw DeviceFailure(launch.kernel + " has a function constant " + name + ", which names nothing of op " +
                        signature.op);
}

}  // namespace

std::string text(NSError* error) {
    return error == nil ? "unknown error" : error.localizedDescription.UTF8String;
}

Retained<id<MTLBuffer>> allocate(id<MTLDevice> device, uint64_t bytes, const char* what) {
    Retained<id<MTLBuffer>> buffer([device newBufferWithLength:round_up(bytes, page_bytes())
                                                       options:MTLResourceStorageModeShared]);
    if (!buffer) throw DeviceFailure("the GPU cannot allocate " + std::to_string(bytes) + " bytes for " + what);
    return buffer;
}

void Gpu::map_files(std::span<const Bytes> weights) {
    for (const Bytes& file : std::exchange(files, {})) {
        uint64_t longest = 0;
        for (const Bytes& weight : weights) {
            const bool inside = weight.data() >= file.data() && weight.data() < file.data() + file.size();
            if (inside) longest = std::max<uint64_t>(longest, weight.size());
        }
        const auto views = plan_views(file.size(), gpu.get().maxBufferLength, longest, page_bytes());
        if (views.empty()) {
            throw DeviceFailure("a weight of " + std::to_string(longest) +
                                " bytes exceeds the GPU's limit for buffers of " +
                                std::to_string(gpu.get().maxBufferLength));
        }
        for (const View& view : views) {
            mappings.push_back({file, view.begin, wrap(gpu.get(), file.data() + view.begin, view.bytes, "weights")});
        }
    }
}

// Where a weight can be read in place; no buffer where it lies outside the files or at an odd offset.
Place Gpu::find(Bytes weight) const {
    for (const Mapping& mapping : mappings) {
        const std::byte* begin = mapping.file.data() + mapping.begin;
        if (weight.data() < begin || weight.data() + weight.size() > begin + mapping.buffer.get().length) continue;
        const auto offset = static_cast<uint64_t>(weight.data() - begin);
        if (offset % kOffsetAlignment == 0) return {mapping.buffer.get(), offset};
    }
    return {};
}

std::shared_ptr<Retained<id<MTLBuffer>>> Gpu::wrap_cache(std::span<std::byte> memory) {
    std::shared_ptr<Retained<id<MTLBuffer>>> buffer = cache.lock();
    if (buffer && cache_memory == memory.data() && buffer->get().length >= memory.size()) return buffer;
    buffer =
        std::make_shared<Retained<id<MTLBuffer>>>(wrap(gpu.get(), memory.data(), memory.size(), "key/value cache"));
    cache = buffer;
    cache_memory = memory.data();
    return buffer;
}

std::vector<Place> Gpu::place(std::span<const Bytes> weights) {
    std::vector<Place> places;
    std::vector<size_t> copied;
    uint64_t bytes = 0;
    for (size_t i = 0; i < weights.size(); ++i) {
        places.push_back(find(weights[i]));
        if (places[i].buffer != nil) continue;
        const auto known = copies.find({weights[i].data(), weights[i].size()});
        if (known != copies.end()) {
            places[i] = known->second;
            continue;
        }
        copied.push_back(i);
        places[i].offset = bytes;
        bytes = round_up(bytes + weights[i].size(), kOperandAlignment);
    }
    if (copied.empty()) return places;
    const id<MTLBuffer> buffer = copy_buffers.emplace_back(allocate(gpu.get(), bytes, "copies of weights")).get();
    for (const size_t i : copied) {
        places[i].buffer = buffer;
        std::memcpy(static_cast<std::byte*>(buffer.contents) + places[i].offset, weights[i].data(), weights[i].size());
        copies[{weights[i].data(), weights[i].size()}] = places[i];
    }
    return places;
}

std::vector<id<MTLBuffer>> Gpu::weight_buffers() const {
    std::vector<id<MTLBuffer>> buffers;
    for (const Mapping& mapping : mappings) buffers.push_back(mapping.buffer.get());
    for (const auto& buffer : copy_buffers) buffers.push_back(buffer.get());
    return buffers;
}

id<MTLComputePipelineState> Gpu::pipeline(const Launch& launch, const OpSignature& signature) {
    Retained<id<MTLFunction>> function([library.get() newFunctionWithName:ns_string(launch.kernel)]);
    if (!function) throw DeviceFailure("the library has no kernel " + launch.kernel);
    NSDictionary<NSString*, MTLFunctionConstant*>* constants = function.get().functionConstantsDictionary;
    Retained<MTLFunctionConstantValues*> values([[MTLFunctionConstantValues alloc] init]);
    std::vector<uint32_t> key;
    for (NSString* name in [constants.allKeys sortedArrayUsingSelector:@selector(compare:)]) {
        MTLFunctionConstant* constant = [constants objectForKey:name];
        const uint32_t value = constant_value(name.UTF8String, launch, signature);
        const bool is_set = value != 0;
        const void* stored = constant.type == MTLDataTypeBool ? static_cast<const void*>(&is_set) : &value;
        [values.get() setConstantValue:stored type:constant.type atIndex:constant.index];
        key.push_back(value);
    }
    Retained<id<MTLComputePipelineState>>& pipeline = pipelines[{launch.kernel, key}];
    if (pipeline) return pipeline.get();
    NSError* error = nil;
    if (!key.empty()) {
        function = Retained<id<MTLFunction>>([library.get() newFunctionWithName:ns_string(launch.kernel)
                                                                 constantValues:values.get()
                                                                          error:&error]);
    }
    if (function) {
        pipeline = Retained<id<MTLComputePipelineState>>([gpu.get() newComputePipelineStateWithFunction:function.get()
                                                                                                  error:&error]);
    }
    if (!pipeline) throw DeviceFailure("the GPU cannot run " + launch.kernel + ": " + text(error));
    return pipeline.get();
}

Gpu::Gpu(const std::string& library_path, std::span<const Bytes> mapped_files)
    : gpu(MTLCreateSystemDefaultDevice()), files(mapped_files.begin(), mapped_files.end()) {
    @autoreleasepool {
        if (!gpu) throw DeviceFailure("this machine has no Metal device");
        newest = newest_family(gpu.get());
        queue = Retained<id<MTLCommandQueue>>([gpu.get() newCommandQueue]);
        NSError* error = nil;
        NSURL* url = [NSURL fileURLWithPath:ns_string(library_path)];
        library = Retained<id<MTLLibrary>>([gpu.get() newLibraryWithURL:url error:&error]);
        if (!library) throw DeviceFailure("cannot load " + library_path + ": " + text(error));
    }
}

std::unique_ptr<Program> Gpu::bind(Plan plan, std::span<const Bytes> weights, std::span<std::byte> cache) {
    return make_program(*this, std::move(plan), weights, cache);
}

std::unique_ptr<Executor> make_executor(const std::string& library, std::span<const Bytes> files) {
    return std::make_unique<Gpu>(library, files);
}

Backend backend() {
    return FERRULE_METAL_HOST ? Backend::stand_in : Backend::gpu;
}

}  // namespace ferrule::metal
