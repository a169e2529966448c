// Stand-in Metal framework over the executor. A library is a shared object of translated kernels. Command buffers run
// as late as their results are waited for, so that a missing wait shows. Misuse raises an NSException, as Metal's
// validation layer does; what the executor finds wrong with a dispatch becomes the command buffer's error.
#import <Metal/Metal.h>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <exception>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "../runtime/executor.h"
#include "../runtime/library.h"
#include "settings.h"

using namespace metal_host;

namespace {

Settings g_settings;

using ConstantValues = std::map<uint32_t, double>;

NSString* const kErrorDomain = @"MetalHostErrorDomain";

NSError* make_error(const std::string& message) {
    NSString* text = [NSString stringWithUTF8String:message.c_str()];
    return [NSError errorWithDomain:kErrorDomain
                               code:1
                           userInfo:[NSDictionary dictionaryWithObject:text forKey:NSLocalizedDescriptionKey]];
}

void require(bool condition, NSString* message) {
    if (!condition) [NSException raise:@"MetalHostValidation" format:@"%@", message];
}

// Runs `make`; an exception becomes `*error` and nil.
template <class Make>
id report(NSError** error, Make make) {
    try {
        return make();
    } catch (const std::exception& exception) {
        if (error != nullptr) *error = make_error(exception.what());
        return nil;
    }
}

}  // namespace

extern "C" [[gnu::visibility("default")]] void metal_host_configure(const Settings* settings) {
    g_settings = *settings;
}

// Objective-C's runtime here calls no constructors of instance variables: C++ objects are held by pointers.

@interface HostBuffer : NSObject <MTLBuffer> {
  @public
    char* data_;
    NSUInteger length_;
    BOOL owned_;
}
@end

@implementation HostBuffer
- (NSUInteger)length {
    return length_;
}
- (void*)contents {
    return data_;
}
- (uint64_t)gpuAddress {
    return reinterpret_cast<uint64_t>(data_);
}
- (void)dealloc {
    if (owned_) free(data_);
    [super dealloc];
}
@end

@implementation MTLFunctionConstant
- (NSString*)name {
    return [NSString stringWithUTF8String:static_cast<const FunctionConstant*>(_constant)->name];
}
- (MTLDataType)type {
    const std::string type = static_cast<const FunctionConstant*>(_constant)->type;
    return type == "bool" ? MTLDataTypeBool : type == "uint" ? MTLDataTypeUInt : MTLDataTypeFloat;
}
- (NSUInteger)index {
    return static_cast<const FunctionConstant*>(_constant)->index;
}
@end

@implementation MTLFunctionConstantValues
- (id)init {
    self = [super init];
    _values = new ConstantValues;
    return self;
}
- (void)setConstantValue:(const void*)value type:(MTLDataType)type atIndex:(NSUInteger)index {
    double& stored = (*static_cast<ConstantValues*>(_values))[static_cast<uint32_t>(index)];
    switch (type) {
        case MTLDataTypeBool:
            stored = *static_cast<const bool*>(value);
            break;
        case MTLDataTypeUInt:
            stored = *static_cast<const uint32_t*>(value);
            break;
        case MTLDataTypeFloat:
            stored = *static_cast<const float*>(value);
            break;
    }
}
- (void)dealloc {
    delete static_cast<ConstantValues*>(_values);
    [super dealloc];
}
@end

@interface HostFunction : NSObject <MTLFunction> {
  @public
    const LoadedLibrary::Entry* entry_;
    BOOL specialised_;
}
@end

@implementation HostFunction
- (NSDictionary*)functionConstantsDictionary {
    NSMutableDictionary* constants = [NSMutableDictionary dictionary];
    for (uint32_t i = 0; i < entry_->file->n_constants; ++i) {
        MTLFunctionConstant* constant = [[[MTLFunctionConstant alloc] init] autorelease];
        constant->_constant = &entry_->file->constants[i];
        [constants setObject:constant forKey:constant.name];
    }
    return constants;
}
@end

@interface HostLibrary : NSObject <MTLLibrary> {
  @public
    std::string* path_;
}
- (id<MTLFunction>)function:(NSString*)name constants:(const ConstantValues&)constants;
@end

@implementation HostLibrary
- (id<MTLFunction>)function:(NSString*)name constants:(const ConstantValues&)constants {
    HostFunction* function = [[HostFunction alloc] init];
    function->entry_ = &LoadedLibrary::load(*path_, constants).find(name.UTF8String);
    return function;
}
- (id<MTLFunction>)newFunctionWithName:(NSString*)name {
    return report(nullptr, [&] { return [self function:name constants:{}]; });
}
- (id<MTLFunction>)newFunctionWithName:(NSString*)name
                        constantValues:(MTLFunctionConstantValues*)values
                                 error:(NSError**)error {
    return report(error, [&]() -> id {
        HostFunction* function = [self function:name constants:*static_cast<ConstantValues*>(values->_values)];
        function->specialised_ = YES;
        return function;
    });
}
- (void)dealloc {
    delete path_;
    [super dealloc];
}
@end

@interface HostPipeline : NSObject <MTLComputePipelineState> {
  @public
    const Kernel* kernel_;
}
@end

@implementation HostPipeline
- (NSUInteger)maxTotalThreadsPerThreadgroup {
    return g_settings.max_threads != 0 ? g_settings.max_threads : kernel_->max_threads;
}
- (NSUInteger)threadExecutionWidth {
    return kSimdWidth;
}
- (NSUInteger)staticThreadgroupMemoryLength {
    return 0;  // the executor finds it out while the kernel runs, and refuses too much
}
@end

@implementation MTLResidencySetDescriptor
@synthesize initialCapacity;
@end

@interface HostResidencySet : NSObject <MTLResidencySet>
@end

@implementation HostResidencySet
- (void)addAllocation:(id<MTLAllocation>)allocation {
    require(allocation != nil, @"nil allocation");
}
- (void)commit {
}
- (void)requestResidency {
}
- (void)endResidency {
}
@end

namespace {

// One dispatch and everything bound to it.
struct Dispatch {
    const Kernel* kernel = nullptr;
    Arguments arguments{};
    std::array<HostBuffer*, kMaxBindings> buffers{};
    Size threadgroups, threads;
    bool ordered = true;  // after the one before
};

// What a command buffer has recorded.
struct Recording {
    std::vector<Dispatch> dispatches;
    std::deque<std::vector<char>> bytes;  // of setBytes; addresses stay
    std::vector<Binding> used;            // what kernels may read through addresses
    bool encoder_open = false;

    std::set<HostBuffer*> written_buffers() const {
        std::set<HostBuffer*> written;
        for (const Dispatch& dispatch : dispatches) {
            for (uint32_t i = 0; i < dispatch.kernel->n_parameters; ++i) {
                const Parameter& parameter = dispatch.kernel->parameters[i];
                if (parameter.kind == ParameterKind::buffer && parameter.writable) {
                    written.insert(dispatch.buffers[parameter.index]);
                }
            }
        }
        return written;
    }

    // Returns what went wrong, empty if nothing did.
    std::string run() {
        const std::set<HostBuffer*> written = written_buffers();
        const auto is_ordered = [](const Dispatch& dispatch) { return dispatch.ordered; };
        for (auto begin = dispatches.begin(); begin != dispatches.end();) {
            const auto end = std::find_if(begin + 1, dispatches.end(), is_ordered);
            if (g_settings.seed != 0) std::reverse(begin, end);
            for (auto dispatch = begin; dispatch != end; ++dispatch) {
                for (uint32_t i = 0; i < kMaxBindings; ++i) {
                    HostBuffer* buffer = dispatch->buffers[i];
                    dispatch->arguments.buffers[i].watched = buffer != nil && written.contains(buffer);
                }
                const DispatchOptions options{g_settings.seed, g_settings.checked != 0, dispatch != begin, used};
                std::string fault = metal_host::dispatch(*dispatch->kernel, dispatch->arguments, dispatch->threadgroups,
                                                         dispatch->threads, options);
                if (!fault.empty()) return fault;
            }
            begin = end;
        }
        return "";
    }
};

Size make_size(MTLSize size) {
    return {static_cast<uint32_t>(size.width), static_cast<uint32_t>(size.height), static_cast<uint32_t>(size.depth)};
}

}  // namespace

@interface HostEncoder : NSObject <MTLComputeCommandEncoder> {
  @public
    Recording* recording_;
    Dispatch* next_;
    BOOL concurrent_, ended_;
}
@end

@implementation HostEncoder
- (void)setComputePipelineState:(id<MTLComputePipelineState>)pipeline {
    require(pipeline != nil, @"nil pipeline state");
    next_->kernel = static_cast<HostPipeline*>(pipeline)->kernel_;
}
- (void)setBuffer:(id<MTLBuffer>)buffer offset:(NSUInteger)offset atIndex:(NSUInteger)index {
    require(index < kMaxBindings, @"buffer index over 30");
    require(offset % 4 == 0, @"buffer offset is not a multiple of 4");
    HostBuffer* host_buffer = static_cast<HostBuffer*>(buffer);
    next_->buffers[index] = host_buffer;
    next_->arguments.buffers[index] = {};
    if (host_buffer == nil) return;
    require(offset < host_buffer->length_, @"offset past the end of the buffer");
    next_->arguments.buffers[index] = {host_buffer->data_ + offset, host_buffer->length_ - offset};
}
- (void)setBytes:(const void*)bytes length:(NSUInteger)length atIndex:(NSUInteger)index {
    require(length > 0 && length <= 4096, @"setBytes takes 1 to 4096 bytes");
    const char* begin = static_cast<const char*>(bytes);
    std::vector<char>& copy = recording_->bytes.emplace_back(begin, begin + length);
    next_->buffers[index] = nil;
    next_->arguments.buffers[index] = {copy.data(), length};
}
- (void)setThreadgroupMemoryLength:(NSUInteger)length atIndex:(NSUInteger)index {
    require(length % 16 == 0, @"threadgroup memory length is not a multiple of 16");
    next_->arguments.shared[index].bytes = length;
}
- (void)dispatchThreadgroups:(MTLSize)threadgroups threadsPerThreadgroup:(MTLSize)threads {
    require(!ended_, @"the encoder has ended");
    require(next_->kernel != nullptr, @"dispatch without a pipeline state");
    require(threadgroups.width * threadgroups.height * threadgroups.depth > 0, @"dispatch of no threadgroups");
    next_->threadgroups = make_size(threadgroups);
    next_->threads = make_size(threads);
    recording_->dispatches.push_back(*next_);
    next_->ordered = !concurrent_;
}
- (void)useResources:(const id<MTLResource>[])resources count:(NSUInteger)count usage:(MTLResourceUsage)usage {
    require(usage == MTLResourceUsageRead, @"resources are only read through addresses");
    for (NSUInteger i = 0; i < count; ++i) {
        HostBuffer* buffer = static_cast<HostBuffer*>(resources[i]);
        recording_->used.push_back({buffer->data_, buffer->length_});
    }
}
- (void)memoryBarrierWithScope:(MTLBarrierScope)scope {
    next_->ordered = scope == MTLBarrierScopeBuffers;
}
- (void)endEncoding {
    require(!ended_, @"endEncoding called twice");
    ended_ = YES;
    recording_->encoder_open = false;
}
- (void)dealloc {
    delete next_;
    [super dealloc];
}
@end

@class HostQueue;

@interface HostCommandBuffer : NSObject <MTLCommandBuffer> {
  @public
    HostQueue* queue_;
    Recording* recording_;
    MTLCommandBufferStatus status_;
    NSError* error_;
    NSTimeInterval start_, end_;
}
- (void)run;
@end

@interface HostQueue : NSObject <MTLCommandQueue> {
  @public
    std::deque<HostCommandBuffer*>* committed_;  // not yet run
}
@end

@implementation HostCommandBuffer
- (MTLCommandBufferStatus)status {
    return status_;
}
- (NSError*)error {
    return error_;
}
- (NSTimeInterval)GPUStartTime {
    return start_;
}
- (NSTimeInterval)GPUEndTime {
    return end_;
}
- (id<MTLComputeCommandEncoder>)computeCommandEncoderWithDispatchType:(MTLDispatchType)type {
    require(status_ == MTLCommandBufferStatusNotEnqueued, @"the command buffer is committed");
    require(!recording_->encoder_open, @"another encoder of the command buffer is open");
    recording_->encoder_open = true;
    HostEncoder* encoder = [[[HostEncoder alloc] init] autorelease];
    encoder->recording_ = recording_;
    encoder->next_ = new Dispatch;
    encoder->concurrent_ = type == MTLDispatchTypeConcurrent;
    return encoder;
}
- (void)commit {
    require(status_ == MTLCommandBufferStatusNotEnqueued, @"the command buffer is committed");
    require(!recording_->encoder_open, @"an encoder of the command buffer is open");
    status_ = MTLCommandBufferStatusCommitted;
    queue_->committed_->push_back([self retain]);
}
- (void)waitUntilCompleted {
    require(status_ != MTLCommandBufferStatusNotEnqueued, @"wait for a command buffer that was not committed");
    while (status_ == MTLCommandBufferStatusCommitted) {
        HostCommandBuffer* first = queue_->committed_->front();
        queue_->committed_->pop_front();
        [first run];
        [first release];
    }
}
- (void)run {
    start_ = [NSDate timeIntervalSinceReferenceDate];
    const std::string fault = recording_->run();
    end_ = [NSDate timeIntervalSinceReferenceDate];
    status_ = fault.empty() ? MTLCommandBufferStatusCompleted : MTLCommandBufferStatusError;
    if (!fault.empty()) error_ = [make_error(fault) retain];
}
- (void)dealloc {
    delete recording_;
    [error_ release];
    [super dealloc];
}
@end

@implementation HostQueue
- (id<MTLCommandBuffer>)commandBufferWithUnretainedReferences {
    HostCommandBuffer* buffer = [[[HostCommandBuffer alloc] init] autorelease];
    buffer->queue_ = self;
    buffer->recording_ = new Recording;
    return buffer;
}
- (void)addResidencySet:(id<MTLResidencySet>)set {
    require(set != nil, @"nil residency set");
}
- (void)removeResidencySet:(id<MTLResidencySet>)set {
    require(set != nil, @"nil residency set");
}
- (void)dealloc {
    require(committed_->empty(), @"the queue is released before its command buffers have run");
    delete committed_;
    [super dealloc];
}
@end

@interface HostDevice : NSObject <MTLDevice>
@end

@implementation HostDevice
- (NSString*)name {
    return @"Metal kernels on the host";
}
- (NSUInteger)maxThreadgroupMemoryLength {
    return 32768;
}
- (NSUInteger)maxBufferLength {
    return g_settings.max_buffer_bytes;
}
- (BOOL)supportsFamily:(MTLGPUFamily)family {
    return family <= MTLGPUFamilyApple7 + static_cast<NSInteger>(g_settings.gpu_family) - 7;
}
- (id<MTLCommandQueue>)newCommandQueue {
    HostQueue* queue = [[HostQueue alloc] init];
    queue->committed_ = new std::deque<HostCommandBuffer*>;
    return queue;
}
- (id<MTLBuffer>)newBufferWithLength:(NSUInteger)length options:(MTLResourceOptions)options {
    if (length == 0 || length > self.maxBufferLength || options != MTLResourceStorageModeShared) return nil;
    HostBuffer* buffer = [[HostBuffer alloc] init];
    const size_t page = static_cast<size_t>(getpagesize());
    buffer->data_ = static_cast<char*>(std::aligned_alloc(page, (length + page - 1) / page * page));
    buffer->length_ = length;
    buffer->owned_ = YES;
    std::memset(buffer->data_, 0xFF, length);  // NaN, so that reads of what nobody wrote show
    return buffer;
}
- (id<MTLBuffer>)newBufferWithBytesNoCopy:(void*)bytes
                                   length:(NSUInteger)length
                                  options:(MTLResourceOptions)options
                              deallocator:(void (^)(void*, NSUInteger))deallocator {
    const auto page = static_cast<NSUInteger>(getpagesize());
    const bool aligned = reinterpret_cast<uintptr_t>(bytes) % page == 0 && length % page == 0;
    if (!aligned || length == 0 || length > self.maxBufferLength || options != MTLResourceStorageModeShared ||
        deallocator != nil) {
        return nil;
    }
    HostBuffer* buffer = [[HostBuffer alloc] init];
    buffer->data_ = static_cast<char*>(bytes);
    buffer->length_ = length;
    return buffer;
}
- (id<MTLLibrary>)newLibraryWithURL:(NSURL*)url error:(NSError**)error {
    return report(error, [&]() -> id {
        const std::string path = std::string(url.path.UTF8String) + (g_settings.checked != 0 ? ".checked" : "");
        LoadedLibrary::load(path, {});
        HostLibrary* library = [[HostLibrary alloc] init];
        library->path_ = new std::string(path);
        return library;
    });
}
- (id<MTLComputePipelineState>)newComputePipelineStateWithFunction:(id<MTLFunction>)function error:(NSError**)error {
    HostFunction* host_function = static_cast<HostFunction*>(function);
    if (host_function->entry_->file->n_constants > 0 && !host_function->specialised_) {
        if (error != nullptr) *error = make_error("the function has constants without values");
        return nil;
    }
    HostPipeline* pipeline = [[HostPipeline alloc] init];
    pipeline->kernel_ = host_function->entry_->kernel;
    return pipeline;
}
- (id<MTLResidencySet>)newResidencySetWithDescriptor:(MTLResidencySetDescriptor*)descriptor error:(NSError**)error {
    if (error != nullptr) *error = nil;
    require(descriptor != nil, @"nil descriptor");
    return [[HostResidencySet alloc] init];
}
@end

extern "C" [[gnu::visibility("default")]] id<MTLDevice> MTLCreateSystemDefaultDevice(void) {
    return [[HostDevice alloc] init];
}
