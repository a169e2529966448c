// Stand-in for <Metal/Metal.h>: the part that ferrule uses, with Apple's names, types and semantics.
#pragma once
#import <Foundation/Foundation.h>

#define __MAC_OS_X_VERSION_MAX_ALLOWED 150000  // of the SDK: residency sets are declared

#pragma clang assume_nonnull begin

@protocol MTLDevice;
@protocol MTLCommandBuffer;
@protocol MTLComputeCommandEncoder;

typedef struct {
    NSUInteger width, height, depth;
} MTLSize;

static inline MTLSize MTLSizeMake(NSUInteger width, NSUInteger height, NSUInteger depth) {
    MTLSize size = {width, height, depth};
    return size;
}

typedef NS_ENUM(NSUInteger, MTLDispatchType) { MTLDispatchTypeSerial = 0, MTLDispatchTypeConcurrent = 1 };
typedef NS_OPTIONS(NSUInteger, MTLBarrierScope) { MTLBarrierScopeBuffers = 1 };
typedef NS_OPTIONS(NSUInteger, MTLResourceOptions) { MTLResourceStorageModeShared = 0 };
typedef NS_OPTIONS(NSUInteger, MTLResourceUsage) { MTLResourceUsageRead = 1, MTLResourceUsageWrite = 2 };
typedef NS_ENUM(NSUInteger, MTLCommandBufferStatus) {
    MTLCommandBufferStatusNotEnqueued = 0,
    MTLCommandBufferStatusCommitted = 2,
    MTLCommandBufferStatusCompleted = 4,
    MTLCommandBufferStatusError = 5,
};
typedef NS_ENUM(NSUInteger, MTLDataType) { MTLDataTypeFloat = 3, MTLDataTypeUInt = 33, MTLDataTypeBool = 53 };
typedef NS_ENUM(NSInteger, MTLGPUFamily) {
    MTLGPUFamilyApple7 = 1007,
    MTLGPUFamilyApple8 = 1008,
    MTLGPUFamilyApple9 = 1009,
};

@protocol MTLAllocation <NSObject>
@end

@protocol MTLResource <MTLAllocation>
@end

@protocol MTLBuffer <MTLResource>
@property(readonly) NSUInteger length;
@property(readonly) uint64_t gpuAddress;
- (void*)contents;
@end

// Instance variables stand here because this Objective-C runtime allows them nowhere else.
@interface MTLFunctionConstant : NSObject {
  @public
    const void* _constant;
}
@property(readonly) NSString* name;
@property(readonly) MTLDataType type;
@property(readonly) NSUInteger index;
@end

@interface MTLFunctionConstantValues : NSObject {
  @public
    void* _values;
}
- (void)setConstantValue:(const void*)value type:(MTLDataType)type atIndex:(NSUInteger)index;
@end

@protocol MTLFunction <NSObject>
@property(readonly) NSDictionary<NSString*, MTLFunctionConstant*>* functionConstantsDictionary;
@end

@protocol MTLLibrary <NSObject>
- (nullable id<MTLFunction>)newFunctionWithName:(NSString*)name;
- (nullable id<MTLFunction>)newFunctionWithName:(NSString*)name
                                 constantValues:(MTLFunctionConstantValues*)values
                                          error:(NSError* _Nullable* _Nullable)error;
@end

@protocol MTLComputePipelineState <NSObject>
@property(readonly) NSUInteger maxTotalThreadsPerThreadgroup;
@property(readonly) NSUInteger threadExecutionWidth;
@property(readonly) NSUInteger staticThreadgroupMemoryLength;
@end

@interface MTLResidencySetDescriptor : NSObject {
    NSUInteger initialCapacity;
}
@property(nonatomic) NSUInteger initialCapacity;
@end

@protocol MTLResidencySet <NSObject>
- (void)addAllocation:(id<MTLAllocation>)allocation;
- (void)commit;
- (void)requestResidency;
- (void)endResidency;
@end

@protocol MTLComputeCommandEncoder <NSObject>
- (void)setComputePipelineState:(id<MTLComputePipelineState>)pipeline;
- (void)setBuffer:(nullable id<MTLBuffer>)buffer offset:(NSUInteger)offset atIndex:(NSUInteger)index;
- (void)setBytes:(const void*)bytes length:(NSUInteger)length atIndex:(NSUInteger)index;
- (void)setThreadgroupMemoryLength:(NSUInteger)length atIndex:(NSUInteger)index;
- (void)dispatchThreadgroups:(MTLSize)threadgroups threadsPerThreadgroup:(MTLSize)threads;
- (void)useResources:(const id<MTLResource> _Nonnull[_Nonnull])resources
               count:(NSUInteger)count
               usage:(MTLResourceUsage)usage;
- (void)memoryBarrierWithScope:(MTLBarrierScope)scope;
- (void)endEncoding;
@end

@protocol MTLCommandBuffer <NSObject>
@property(readonly) MTLCommandBufferStatus status;
@property(readonly, nullable) NSError* error;
@property(readonly) NSTimeInterval GPUStartTime, GPUEndTime;
- (nullable id<MTLComputeCommandEncoder>)computeCommandEncoderWithDispatchType:(MTLDispatchType)type;
- (void)commit;
- (void)waitUntilCompleted;
@end

@protocol MTLCommandQueue <NSObject>
- (nullable id<MTLCommandBuffer>)commandBufferWithUnretainedReferences;
- (void)addResidencySet:(id<MTLResidencySet>)set;
- (void)removeResidencySet:(id<MTLResidencySet>)set;
@end

@protocol MTLDevice <NSObject>
@property(readonly) NSString* name;
@property(readonly) NSUInteger maxThreadgroupMemoryLength;
@property(readonly) NSUInteger maxBufferLength;
- (BOOL)supportsFamily:(MTLGPUFamily)family;
- (nullable id<MTLCommandQueue>)newCommandQueue;
- (nullable id<MTLBuffer>)newBufferWithLength:(NSUInteger)length options:(MTLResourceOptions)options;
- (nullable id<MTLBuffer>)newBufferWithBytesNoCopy:(void*)bytes
                                            length:(NSUInteger)length
                                           options:(MTLResourceOptions)options
                                       deallocator:(void (^_Nullable)(void*, NSUInteger))deallocator;
- (nullable id<MTLLibrary>)newLibraryWithURL:(NSURL*)url error:(NSError* _Nullable* _Nullable)error;
- (nullable id<MTLComputePipelineState>)newComputePipelineStateWithFunction:(id<MTLFunction>)function
                                                                      error:(NSError* _Nullable* _Nullable)error;
- (nullable id<MTLResidencySet>)newResidencySetWithDescriptor:(MTLResidencySetDescriptor*)descriptor
                                                        error:(NSError* _Nullable* _Nullable)error;
@end

#ifdef __cplusplus
extern "C" {
#endif
id<MTLDevice> _Nullable MTLCreateSystemDefaultDevice(void);
#ifdef __cplusplus
}
#endif

#pragma clang assume_nonnull end
